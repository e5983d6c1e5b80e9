"""Readings of perftest: ib_write_bw, ib_read_bw, ib_send_bw and their latency siblings."""
