"""The fault suite: an index that is killed, changed, damaged, shared and starved, and is never wrong.

Short in ``make test``, long in ``make torture``. The indexes are written by other processes, through the command line,
with a model and embeddings that are scripted, so that a killed process takes nothing of the test with it.
"""
