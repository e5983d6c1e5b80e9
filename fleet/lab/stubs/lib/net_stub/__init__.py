"""The network tools of a rehearsed node: ping, ip route get, ib_write_bw, mpirun with all_reduce_perf."""
