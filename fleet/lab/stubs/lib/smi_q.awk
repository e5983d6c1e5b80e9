# `nvidia-smi -q` from a template and a GPU snapshot. A line of the template is `PART|text`; {field} in
# the text is a column of the snapshot, with its unit. Variables: parts (of -d, empty for all), only.
# Lines of the part ALWAYS stand in every form, those of BASE in the form without -d.
BEGIN { FS = "\t"; count = split(parts, list, ","); for (i = 1; i <= count; i++) asked[list[i]] = 1 }
FNR == NR {
  bar = index($0, "|"); part = substr($0, 1, bar - 1)
  known[part] = 1
  if (part == "ALWAYS" || parts == "" || part in asked) text[++lines] = substr($0, bar + 1)
  next
}
FNR == 1 {
  for (i in asked) if (!(i in known)) { print "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."; rc = 2; exit }
  for (i = 1; i <= NF; i++) name[i] = $i
  width = NF; next
}
FNR == 2 { for (i = 1; i <= NF; i++) unit[i] = $i == "-" ? "" : " " $i; next }
{ row[++rows] = $0 }
END {
  if (rc) exit rc
  for (r = 1; r <= rows && !shown; r++) {
    split(row[r], cell, "\t")
    if (cell[2] ~ /^!/) continue
    for (i = 1; i <= width; i++) { if (name[i] == "timestamp") stamp = cell[i]; if (name[i] == "driver_version") driver = cell[i]; if (name[i] == "_cuda") cuda = cell[i] }
    shown = 1
  }
  print "\n==============NVSMI LOG==============\n"
  head("Timestamp", stamp); head("Driver Version", driver); head("CUDA Version", cuda); print ""
  head("Attached GPUs", rows)
  for (r = 1; r <= rows; r++) {
    split(row[r], cell, "\t")
    if (only != "" && cell[1] != only) continue
    matched++
    if (cell[2] ~ /^!/) { print substr(cell[2], 2); rc = 15; continue }
    for (i = 1; i <= width; i++) value["{" name[i] "}"] = cell[i] (cell[i] ~ /^\[/ ? "" : unit[i])
    for (l = 1; l <= lines; l++) print filled(text[l])
    print ""
  }
  if (only != "" && !matched) { print "No devices were found"; rc = 6 }
  exit rc
}
function head(key, word) { printf "%-42s: %s\n", key, word }
function filled(line,   field, out) {
  out = ""
  while (match(line, /\{[^}]*\}/)) {
    field = substr(line, RSTART, RLENGTH)
    out = out substr(line, 1, RSTART - 1) value[field]
    if (value[field] ~ /^\[/) return out  # a sentence in place of a value has no unit
    line = substr(line, RSTART + RLENGTH)
  }
  return out line
}
