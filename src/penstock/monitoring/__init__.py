"""What every process of Penstock shows of itself: metrics over HTTP and structured logs."""
