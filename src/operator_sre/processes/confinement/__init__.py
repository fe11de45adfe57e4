"""Commands that the kernel holds to what their verdict declares."""
