# `nvidia-smi nvlink -s` from a GPU snapshot: the column `_down` names the links that are down.
BEGIN { FS = "\t" }
FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
FNR == 2 { next }
$2 ~ /^!/ { print substr($2, 2); rc = 15; next }
{
  printf "GPU %s: %s (UUID: %s)\n", $(column["index"]), $(column["name"]), $(column["uuid"])
  down = "," $(column["_down"]) ","
  for (link = 0; link < 18; link++)
    printf "\t Link %d: %s\n", link, index(down, "," link ",") ? "<inactive>" : "26.562 GB/s"
}
END { exit rc }
