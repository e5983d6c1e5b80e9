# Turn a GPU snapshot and the workers.json files of containers into a snapshot of processes.
# Only living processes are listed: a pid counts when its start ticks are the recorded ones.
BEGIN {
  FS = "\t"; OFS = "\t"
  print "gpu_index", "gpu_uuid", "gpu_name", "gpu_serial", "gpu_bus_id", "pid", "process_name", \
    "name", "used_memory", "used_gpu_memory"
  print "-", "-", "-", "-", "-", "-", "-", "-", "MiB", "MiB"
}
FNR == NR && FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
FNR == NR {
  if (FNR > 2 && $2 !~ /^!/) {
    index_of = $(column["index"])
    gpu[index_of] = $(column["uuid"]) OFS $(column["name"]) OFS $(column["serial"]) OFS \
      $(column["pci.bus_id"])
    used[index_of] = $(column["memory.used"])
  }
  next
}
{
  rows = split($0, objects, "}")
  for (i = 1; i <= rows; i++) add(objects[i])
}
function field(object, key,   text) {
  if (!match(object, "\"" key "\": *(\"[^\"]*\"|-?[0-9]+)")) return ""
  text = substr(object, RSTART, RLENGTH)
  sub(/^"[^"]*": */, "", text)
  gsub(/"/, "", text)
  return text
}
function add(object,   pid, card, stat, parts) {
  object = kept object
  kept = ""
  pid = field(object, "pid")
  if (pid == "") { if (object ~ /\{/) kept = object " "; return }
  card = field(object, "gpu")
  if (card == "") card = field(object, "local_rank")
  if (!(card in gpu)) return
  if ((getline stat < ("/proc/" pid "/stat")) <= 0) return
  close("/proc/" pid "/stat")
  sub(/^.*\) /, "", stat)
  split(stat, parts, " ")
  if (parts[1] == "Z" || parts[20] != field(object, "start_ticks")) return
  print card, gpu[card], pid, field(object, "argv0"), field(object, "argv0"), used[card], used[card]
}
