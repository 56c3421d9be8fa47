"""What several rules can do about a fault: fixes as edits."""
