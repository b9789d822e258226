"""Claims: what theories and papers say over a whole sweep, judged one by one."""
