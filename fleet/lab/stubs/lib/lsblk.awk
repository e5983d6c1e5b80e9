# The tree of `lsblk -o NAME,SIZE,TYPE,MOUNTPOINT,FSTYPE` from lsblk.json, which has one key a line.
function human(bytes,   step, names) {
  split("B K M G T P", names, " ")
  for (step = 1; bytes >= 1024 && step < 6; step++) bytes /= 1024
  return (bytes >= 10 || step == 1 ? sprintf("%.0f", bytes) : sprintf("%.1f", bytes)) names[step]
}
function value() { text = $0; sub(/^[^:]*: */, "", text); sub(/,$/, "", text); gsub(/"/, "", text); return text == "null" ? "" : text }
function flush(   glyph) {
  if (name == "") return
  glyph = name ~ /^(md|nvme.*p)[0-9]/ ? "└─" : ""
  line = sprintf("%-15s %6s %-5s %-30s %s", glyph name, human(size), kind, mount, fstype)
  sub(/ +$/, "", line); print line
  name = ""
}
BEGIN { print "NAME              SIZE TYPE  MOUNTPOINT                     FSTYPE" }
/"name":/ { flush(); name = value() }
/"size":/ { size = value() }
/"type":/ { kind = value() }
/"mountpoint":/ { mount = value(); sub(/@MODELS@/, models, mount) }
/"fstype":/ { fstype = value() }
END { flush() }
