# `docker ps` from the containers' directories. A `listing` file holds one line of TAB fields:
# id, name, created (epoch), labels joined by \037, the constant JSON (cut, whole), image, command.
# What changes (status, exit code, times) is read from state.json beside it.
# Variables: all, full, quiet, form, now; environment: FILTERS, one `name=value` a line.
BEGIN {
  FS = "\t"
  read_filters(ENVIRON["FILTERS"])
  if (bad != "") {
    printf "Error response from daemon: invalid filter '%s'\n", bad > "/dev/stderr"
    exit rc = 1
  }
}
{
  directory = FILENAME
  sub(/listing$/, "", directory)
  state = read_line(directory "state.json")
  status = field(state, "status")
  if (status == "") next
  if (status == "running" && !lives(state, "pid", "start_ticks") && !lives(state, "monitor_pid", "monitor_start_ticks"))
    status = "lost"
  if (!wanted()) next
  count++
  created[count] = $3 + 0
  line[count] = row()
}
END {
  if (rc) exit rc
  if (form == "table" && !quiet)
    printf "%-14s %-44s %-24s %-20s %-28s %s\n", "CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "NAMES"
  # Newest first, as the daemon lists them.
  for (i = 1; i <= count; i++) {
    best = 0
    for (j = 1; j <= count; j++) if (!(j in done) && (!best || created[j] > created[best])) best = j
    done[best] = 1
    print line[best]
  }
}
function read_filters(text,   rows, i, key) {
  number = split(text, rows, "\n")
  for (i = 1; i <= number; i++) {
    if (rows[i] == "") continue
    key = rows[i]
    sub(/=.*/, "", key)
    if (key !~ /^(label|name|id|status)$/) { bad = key; return }
    kinds[++filters] = key
    values[filters] = substr(rows[i], length(key) + 2)
    if (key == "status") all = 1
  }
}
function read_line(path,   text) {
  if ((getline text < path) <= 0) text = ""
  close(path)
  return text
}
function field(object, key,   text) {
  if (!match(object, "\"" key "\": *(\"[^\"]*\"|-?[0-9]+|true|false)")) return ""
  text = substr(object, RSTART, RLENGTH)
  sub(/^"[^"]*": */, "", text)
  gsub(/"/, "", text)
  return text
}
function lives(object, pid_key, ticks_key,   stat, parts) {
  if (field(object, pid_key) == "") return 0
  stat = read_line("/proc/" field(object, pid_key) "/stat")
  sub(/^.*\) /, "", stat)
  split(stat, parts, " ")
  return stat != "" && parts[1] != "Z" && parts[20] == field(object, ticks_key)
}
function wanted(   i, kind, shown, asked, hit) {
  shown = status == "lost" ? "exited" : status
  if (!all && shown != "running") return 0
  for (i = 1; i <= filters; i++) {
    kind = kinds[i]
    asked[kind] = 1
    # Labels must all hold; several values of another kind are alternatives.
    if (kind == "label" && !has_label(values[i])) return 0
    if (kind == "label") hit[kind] = 1
    if (kind == "id" && index($1, values[i]) == 1) hit[kind] = 1
    if (kind == "name" && name_matches($2, values[i])) hit[kind] = 1
    if (kind == "status" && shown == values[i]) hit[kind] = 1
  }
  for (kind in asked) if (!(kind in hit)) return 0
  return 1
}
function has_label(value) {
  if (index(value, "=")) return index($4, "\037" value "\037") > 0
  return index($4, "\037" value "=") > 0
}
function name_matches(name, pattern) {
  sub(/^\//, "", pattern)
  gsub(/\^\//, "^", pattern)
  return name ~ pattern
}
function row(   shown, text) {
  shown = status == "lost" ? "exited" : status
  text = status_text()
  if (quiet) return full ? $1 : substr($1, 1, 12)
  if (form == "table")
    return sprintf("%-14s %-44s %-24s %-20s %-28s %s", full ? $1 : substr($1, 1, 12), $7, $8, span(now - int($3)) " ago", text, $2)
  return (full ? $6 : $5) ",\"RunningFor\":\"" span(now - int($3)) " ago\",\"Size\":\"0B\",\"State\":\"" shown "\",\"Status\":\"" text "\"}"
}
function status_text() {
  if (status == "running") return "Up " span(now - epoch(field(state, "started_at")))
  if (status == "lost") return "Exited (137) Less than a second ago"
  if (status == "exited")
    return "Exited (" field(state, "exit_code") ") " span(now - epoch(field(state, "finished_at"))) " ago"
  return "Created"
}
# Days since 1970 by the civil calendar; awk has no mktime everywhere.
function epoch(text,   y, m, d, era, day, year) {
  y = substr(text, 1, 4) + 0; m = substr(text, 6, 2) + 0; d = substr(text, 9, 2) + 0
  if (y == 0) return now
  if (m <= 2) y--
  era = int(y / 400); year = y - era * 400
  day = int((153 * (m + (m > 2 ? -3 : 9)) + 2) / 5) + d - 1
  day = era * 146097 + year * 365 + int(year / 4) - int(year / 100) + day - 719468
  return day * 86400 + substr(text, 12, 2) * 3600 + substr(text, 15, 2) * 60 + substr(text, 18, 2)
}
function span(seconds) {
  seconds = int(seconds)
  if (seconds < 1) return "Less than a second"
  if (seconds == 1) return "1 second"
  if (seconds < 60) return seconds " seconds"
  if (seconds < 120) return "About a minute"
  if (seconds < 3600) return int(seconds / 60) " minutes"
  if (seconds < 7200) return "About an hour"
  if (seconds < 172800) return int(seconds / 3600) " hours"
  if (seconds < 1209600) return int(seconds / 86400) " days"
  return int(seconds / 604800) " weeks"
}
