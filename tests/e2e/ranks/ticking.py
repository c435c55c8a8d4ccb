"""A rank that shows when it is running: it appends its attempt's number to the file TICKS, a line about every
millisecond, until the file GO exists. It ignores SIGTERM.

usage: ticking.py TICKS GO
"""
import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
ticks = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
line = os.environ["MUSTER_ATTEMPT"].encode() + b"\n"
while not os.path.exists(sys.argv[2]):
    os.write(ticks, line)
    time.sleep(0.001)
