"""Everything one machine needs beside the code: database, cache, processes, lab. Production hosts
bring their own.
"""
