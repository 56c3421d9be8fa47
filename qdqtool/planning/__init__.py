"""What is quantized, in which format and with which scales: everything that leads to a plan."""
