# ruff: noqa: E501
"""Small outputs of a host's tools, of our own, in the forms that nodes print."""

from __future__ import annotations

from tests.readings.variant_texts import Variant

CHRONY = """\
Reference ID    : 0A000001 (ntp1.example)
Stratum         : 3
Ref time (UTC)  : Mon Nov 30 10:00:00 2026
System time     : 0.000080000 seconds slow of NTP time
Last offset     : -0.000012345 seconds
RMS offset      : 0.000034567 seconds
Frequency       : 12.345 ppm slow
Residual freq   : -0.001 ppm
Skew            : 0.012 ppm
Root delay      : 0.000400000 seconds
Root dispersion : 0.000300000 seconds
Update interval : 64.2 seconds
Leap status     : Normal
"""
ETHTOOL = """\
NIC statistics:
     rx_packets: 184467
     rx_prio3_pause: 12
     rx_discards_phy: 0
     rx_crc_errors_phy: 0
"""
PORTS = "".join(
    f"/sys/class/infiniband/mlx5_0/ports/1/{name}\n"
    for name in (
        "counters/port_xmit_data:4711", "counters/symbol_error:0", "hw_counters/out_of_sequence:0",
        "hw_counters/packet_seq_err:0", "hw_counters/np_cnp_sent:77",
    )
)  # fmt: skip
LSCPU = """\
Architecture:            x86_64
CPU(s):                  8
On-line CPU(s) list:     0-7
Model name:              INTEL(R) XEON(R) PLATINUM 8558
Thread(s) per core:      2
Core(s) per socket:      2
Socket(s):               2
NUMA node(s):            2
NUMA node0 CPU(s):       0,2,4,6
NUMA node1 CPU(s):       1,3,5,7
Vulnerability Meltdown:  Not affected
"""
LSCPU_J = (
    '{"lscpu": [{"field": "Architecture:", "data": "aarch64"}, {"field": "CPU(s):", "data": "4"},'
    ' {"field": "On-line CPU(s) list:", "data": "0-3"}, {"field": "NUMA node(s):", "data": "1"},'
    ' {"field": "NUMA node0 CPU(s):", "data": "0-3"}]}\n'
)
ONE_NODE = """\
available: 1 nodes (0)
node 0 cpus: 0 1 2 3
node 0 size: 15900 MB
node 0 free: 9000 MB
node distances:
node     0
   0:   10
"""
EIGHT_NODES = (
    "available: 8 nodes (0-7)\n"
    + "".join(
        f"node {n} cpus: {2 * n} {2 * n + 1}\nnode {n} size: {257000 + n} MB\nnode {n} free: {200000 + n} MB\n"
        for n in range(8)
    )
    + "node distances:\nnode   0   1   2   3   4   5   6   7 \n"
    + "".join(
        f"  {a}: "
        + "".join(f"{10 if a == b else 12 if a // 4 == b // 4 else 32:3} " for b in range(8))
        + "\n"
        for a in range(8)
    )
)
MEMINFO = """\
MemTotal:       2113000000 kB
MemFree:        1900000000 kB
MemAvailable:   2000000000 kB
Shmem:             12345 kB
SwapTotal:             0 kB
SwapFree:              0 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
"""
DOCKER = """\
Client: Docker Engine - Community
 Version:           27.0.3
 API version:       1.46

Server: Docker Engine - Community
 Engine:
  Version:          26.1.4
  API version:      1.45 (minimum version 1.24)
 containerd:
  Version:          1.7.18
"""
REFUSED = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max locked memory         unlimited            unlimited            bytes     \n"
)
FIO = """\
seqread: (g=0): rw=read, bs=(R) 1024KiB-1024KiB, (W) 1024KiB-1024KiB, (T) 1024KiB-1024KiB, ioengine=libaio, iodepth=32
fio-3.36
seqread: (groupid=0, jobs=1): err= 0: pid=4242: Mon Nov 30 20:00:00 2026
  read: IOPS=6312, BW=6312MiB/s (6619MB/s)(185GiB/30001msec)

Run status group 0 (all jobs):
   READ: bw=6312MiB/s (6619MB/s), 6312MiB/s-6312MiB/s (6619MB/s-6619MB/s), io=185GiB (199GB), run=30001-30001msec
"""
FIO_J = '{"fio version": "fio-3.36", "jobs": [{"read": {"io_bytes": 198000000000, "runtime": 30000, "bw_bytes": 6600000000}, "error": 0}]}\n'
DD = (
    "4096+0 records in\n4096+0 records out\n"
    "4294967296 bytes (4.3 GB, 4.0 GiB) copied, 1.5 s, 2.9 GB/s\n"
)
PING = (
    "PING 10.0.1.2 (10.0.1.2) 8972(9000) bytes of data.\n8980 bytes from 10.0.1.2: icmp_seq=1 ttl=64 time=0.110 ms\n\n"
    "--- 10.0.1.2 ping statistics ---\n3 packets transmitted, 3 received, 0% packet loss, time 2004ms\n"
    "rtt min/avg/max/mdev = 0.100/0.110/0.120/0.005 ms\n"
)
HOST = [
    Variant("a clock", "host", "pass", CHRONY, {"clock_offset_s": -8e-05, "stratum": 3, "is_synchronised": True}),
    Variant("a clock that nobody holds", "host", "fail",
            CHRONY.replace("Normal", "Not synchronised").replace("Stratum         : 3", "Stratum         : 0"),
            {"is_synchronised": False}),
    Variant("a clock that is far off", "host", "fail", CHRONY.replace("0.000080000", "0.072000000"), {}),
    Variant("a clock that is a little off", "host", "unknown", CHRONY.replace("0.000080000", "0.004000000"), {}),
    Variant("no chronyd", "host", "unknown", "506 Cannot talk to daemon\n", {}),
    Variant("ethtool", "host", "pass", ETHTOOL, {"counters": 4, "counted": {}}),
    Variant("ethtool with losses", "host", "unknown", ETHTOOL.replace("discards_phy: 0", "discards_phy: 9"),
            {"counted": {"rx_discards_phy": 9}}),
    Variant("ethtool before and after", "host", "pass", ETHTOOL + ETHTOOL.replace("184467", "190000"),
            {"grew": {"rx_packets": 5533}}),
    Variant("RDMA counters", "host", "pass", PORTS, {"counters": 5}),
    Variant("RDMA counters before and after", "host", "fail",
            PORTS + PORTS.replace("out_of_sequence:0", "out_of_sequence:4"),
            {"grew": {"mlx5_0/1/hw_counters/out_of_sequence": 4}}),
    Variant("RDMA counters that were reset", "host", "unknown", PORTS + PORTS.replace("4711", "3"), {}),
    Variant("lscpu", "host", "pass", LSCPU, {"cpus": 8, "sockets": 2, "numa_nodes": 2}),
    Variant("lscpu of a GH200", "host", "pass", LSCPU_J, {"cpus": 4, "numa_nodes": 1}),
    Variant("lscpu with processors offline", "host", "unknown", LSCPU.replace("0-7\n", "0-5\n"), {}),
    Variant("one memory node", "host", "pass", ONE_NODE, {"numa_nodes": 1}),
    Variant("eight memory nodes", "host", "pass", EIGHT_NODES, {"numa_nodes": 8}),
    Variant("no memory nodes", "host", "unknown", "No NUMA support available on this system.\n", {}),
    Variant("meminfo", "host", "pass", MEMINFO, {"total_bytes": 2113000000 * 1024}),
    Variant("docker", "host", "pass", DOCKER, {"client": "27.0.3", "server": "26.1.4"}),
    Variant("docker without its daemon", "host", "fail", DOCKER.partition("\nServer")[0] + REFUSED, {"server": None}),
    Variant("docker as JSON", "host", "pass",
            '{"Client":{"Version":"27.0.3","ApiVersion":"1.46"},"Server":{"Version":"26.1.4","ApiVersion":"1.45"}}\n',
            {"server": "26.1.4"}),
    Variant("limits", "host", "pass", LIMITS, {"is_unlimited": True}),
    Variant("an unlimited lock", "host", "pass", "unlimited\n", {"is_unlimited": True}),
    Variant("a small lock", "host", "unknown", "max locked memory           (kbytes, -l) 8192\n",
            {"memlock_bytes": 8192 * 1024}),
    Variant("fio", "host", "pass", FIO, {"gbs": 6.619, "seconds": 30.001}),
    Variant("fio that failed", "host", "fail", FIO.replace("err= 0", "err= 5"), {}),
    Variant("fio as JSON", "host", "pass", FIO_J, {"gbs": 6.6}),
    Variant("dd", "host", "pass", DD, {"tool": "dd", "size_bytes": 4294967296}),
    Variant("ping", "host", "pass", PING, {"received": 3}),
    Variant("ping that is lost", "host", "fail",
            "PING 10.0.1.2 (10.0.1.2) 56(84) bytes of data.\n\n--- 10.0.1.2 ping statistics ---\n"
            "3 packets transmitted, 0 received, 100% packet loss, time 2004ms\n\n", {}),
]  # fmt: skip
