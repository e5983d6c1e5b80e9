# What the tools of RDMA and network devices print, from nic.tsv: column names, then one line a NIC.
# Variables: form (the tool), only (one device or interface, empty for all); exit code 1 when it is not there.
BEGIN { FS = "\t"; if (form == "show_gids") gid_head() }
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
  device = c("device"); netdev = c("netdev"); up = c("port") == "up"
  if (form ~ /^(link|addr)-/) { if (NR == 2) builtin_links(); interface(); next }
  if (only != "" && only != device && only != netdev) next
  seen++
  if (form == "ibstat") ibstat()
  else if (form == "ibstat-l") print device
  else if (form == "ibstatus") ibstatus()
  else if (form == "ibdev2netdev") printf "%s port 1 ==> %s (%s)\n", device, netdev, up ? "Up" : "Down"
  else if (form == "show_gids") gids()
  else if (form == "ibv_devinfo") devinfo()
  else if (form == "ethtool") ethtool()
  else if (form == "ethtool-i") ethtool_i()
}
END {
  if (form == "link-json" || form == "addr-json") { print "[" json "]"; exit (only != "" && !seen) }
  if (form == "show_gids") print "n_gids_found=" found + 0
  if (only != "" && !seen) exit 1
}
function c(name) { return $(at[name]) == "-" ? "" : $(at[name]) }
function ibstat() {
  print "CA '" device "'"
  print "\tCA type: " c("type")
  print "\tNumber of ports: 1"
  print "\tFirmware version: " c("firmware")
  print "\tHardware version: 0"
  print "\tNode GUID: 0x" c("guid")
  print "\tSystem image GUID: 0x" c("guid")
  print "\tPort 1:"
  print "\t\tState: " (up ? "Active" : "Down")
  print "\t\tPhysical state: " c("phys")
  print "\t\tRate: " c("rate_gbps")
  print "\t\tBase lid: 0"
  print "\t\tLMC: 0"
  print "\t\tSM lid: 0"
  print "\t\tCapability mask: 0x00010000"
  print "\t\tPort GUID: 0x" c("guid")
  print "\t\tLink layer: " c("link_layer")
}
function physical() { return c("phys") == "LinkUp" ? 5 : c("phys") == "Polling" ? 2 : 3 }
function ibstatus() {
  print "Infiniband device '" device "' port 1 status:"
  print "\tdefault gid:\t " c("local_gid")
  print "\tbase lid:\t 0x0"
  print "\tsm lid:\t\t 0x0"
  print "\tstate:\t\t " (up ? "4: ACTIVE" : "1: DOWN")
  print "\tphys state:\t " physical() ": " c("phys")
  print "\trate:\t\t " c("rate_gbps") " Gb/sec (" c("width") ")"
  print "\tlink_layer:\t " c("link_layer")
  print ""
}
function gid_head() {
  print "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV"
  print "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---"
}
function gids(   rows, kinds, i, part) {
  rows = split(c("gids"), kinds, ",")
  for (i = 1; i <= rows; i++) {
    if (kinds[i] == "-") continue
    split(kinds[i], part, "/")
    found++
    if (part[1] == "ipv4") printf "%s\t1\t%d\t%s\t%s  \t%s\t%s\n", device, i - 1, c("ipv4_gid"), c("ip"), part[2], netdev
    else printf "%s\t1\t%d\t%s\t\t\t%s\t%s\n", device, i - 1, c("local_gid"), part[2], netdev
  }
}
function mtu_code(bytes) { return bytes == 4096 ? 5 : bytes == 2048 ? 4 : bytes == 1024 ? 3 : bytes == 512 ? 2 : 1 }
function devinfo() {
  print "hca_id:\t" device
  print "\ttransport:\t\t\tInfiniBand (0)"
  print "\tfw_ver:\t\t\t\t" c("firmware")
  print "\tvendor_id:\t\t\t0x02c9"
  print "\tvendor_part_id:\t\t\t" substr(c("type"), 3)
  print "\tboard_id:\t\t\t" c("psid")
  print "\tphys_port_cnt:\t\t\t1"
  print "\t\tport:\t1"
  print "\t\t\tstate:\t\t\t" (up ? "PORT_ACTIVE (4)" : "PORT_DOWN (1)")
  print "\t\t\tmax_mtu:\t\t4096 (5)"
  print "\t\t\tactive_mtu:\t\t" c("active_mtu") " (" mtu_code(c("active_mtu")) ")"
  print "\t\t\tsm_lid:\t\t\t0"
  print "\t\t\tport_lid:\t\t0"
  print "\t\t\tport_lmc:\t\t0x00"
  print "\t\t\tlink_layer:\t\t" c("link_layer")
  print ""
}
function ethtool() {
  print "Settings for " netdev ":"
  print "\tSpeed: " (up ? c("rate_gbps") * 1000 "Mb/s" : "Unknown!")
  print "\tDuplex: " (up ? "Full" : "Unknown! (255)")
  print "\tAuto-negotiation: on"
  print "\tPort: Direct Attach Copper"
  print "\tLink detected: " (up ? "yes" : "no")
}
function ethtool_i() {
  print "driver: mlx5_core"
  print "version: 24.10-2.1.8"
  print "firmware-version: " c("firmware") " (" c("psid") ")"
  print "expansion-rom-version: "
  print "bus-info: 0000:" c("bus") ":00.0"
  print "supports-statistics: yes"
}
# The loopback and a port that nobody uses stand before the NICs.
function builtin_links() {
  link("lo", "UNKNOWN", "LOOPBACK,UP,LOWER_UP", 65536, "00:00:00:00:00:00", "127.0.0.1", 8)
  link("eno2", "DOWN", "NO-CARRIER,BROADCAST,MULTICAST,UP", 1500, "3c:ec:ef:10:20:30", "", 0)
}
function interface() {
  link(netdev, up ? "UP" : "DOWN", up ? "BROADCAST,MULTICAST,UP,LOWER_UP" : "NO-CARRIER,BROADCAST,MULTICAST,UP", c("mtu"), c("mac"), c("ip"), 24)
}
function link(name, state, flags, mtu, mac, address, bits,   quoted, told) {
  number++
  if (only != "" && only != name) return
  seen++
  if (form == "link-brief") printf "%-16s %-14s %s <%s> \n", name, state, mac, flags
  else if (form == "addr-brief") printf "%-16s %-14s %s \n", name, state, address == "" ? "" : address "/" bits
  else if (form == "link-long") {
    printf "%d: %s: <%s> mtu %d qdisc mq state %s mode DEFAULT group default qlen 1000\n", number, name, flags, mtu, state
    printf "    link/%s %s brd ff:ff:ff:ff:ff:ff\n", name == "lo" ? "loopback" : "ether", mac
  } else {
    quoted = flags; gsub(/,/, "\",\"", quoted)
    told = address == "" ? "" : sprintf("{\"family\":\"inet\",\"local\":\"%s\",\"prefixlen\":%d,\"scope\":\"global\",\"label\":\"%s\"}", address, bits, name)
    json = json (json == "" ? "" : ",") sprintf("{\"ifindex\":%d,\"ifname\":\"%s\",\"flags\":[\"%s\"],\"mtu\":%d,\"operstate\":\"%s\",\"link_type\":\"%s\",\"address\":\"%s\"%s}", number, name, quoted, mtu, state, name == "lo" ? "loopback" : "ether", mac, form == "addr-json" ? ",\"addr_info\":[" told "]" : "")
  }
}
