"""Recording the attention of any module where its code runs, through PyTorch's own functions."""
