"""`fedse sweep`: one experiment under many settings and seeds."""
