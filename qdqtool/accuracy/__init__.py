"""How accurate a quantized model is: measured, checked, and searched for a limit."""
