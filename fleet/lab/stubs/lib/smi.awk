# Select columns of a snapshot as nvidia-smi's csv does.
# Line 1: names (aliases are columns of their own), line 2: units or "-", then one line a row;
# a row that cannot be read is `index TAB !sentence`. Variables: want, hdr, unit, only.
BEGIN {
  FS = "\t"
  count = split(want, wanted, ",")
  for (i = 1; i <= count; i++) gsub(/^ +| +$/, "", wanted[i])
}
NR == 1 {
  for (i = 1; i <= NF; i++) column[$i] = i
  for (i = 1; i <= count; i++)
    if (!(wanted[i] in column) || wanted[i] ~ /^_/) {
      printf "Field \"%s\" is not a valid field to query.\n\n", wanted[i]
      rc = 2
      exit
    }
  next
}
NR == 2 {
  for (i = 1; i <= count; i++) units[i] = $(column[wanted[i]])
  if (!hdr) next
  line = ""
  for (i = 1; i <= count; i++)
    line = line (i > 1 ? ", " : "") wanted[i] (unit && units[i] != "-" ? " [" units[i] "]" : "")
  print line
  next
}
only != "" && $1 != only { next }
{ seen++ }
$2 ~ /^!/ { print substr($2, 2); rc = 15; next }
{
  line = ""
  for (i = 1; i <= count; i++) {
    value = $(column[wanted[i]])
    line = line (i > 1 ? ", " : "") value (unit && units[i] != "-" && value !~ /^\[/ ? " " units[i] : "")
  }
  print line
}
END {
  if (!rc && only != "" && !seen) { print "No devices were found"; rc = 6 }
  exit rc
}
