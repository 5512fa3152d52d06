"""A page that computes for a while whenever its slider moves, and notes in $LOG when each run began and ended."""

import os
import time
from pathlib import Path

import streamlit as st

WORK = 0.4
"""CPU seconds that each run computes."""

step = st.slider("Step", 0, 100, 0)
with Path(os.environ["LOG"]).open("a") as log:
    log.write(f"begin {time.monotonic()} {step}\n")
started = time.thread_time()
while time.thread_time() - started < WORK:
    sum(i * i for i in range(5_000))
with Path(os.environ["LOG"]).open("a") as log:
    log.write(f"end {time.monotonic()} {step}\n")
st.text(f"shown {step}")
