"""Episodes as Inspect logs."""
