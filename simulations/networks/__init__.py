"""What the experiments on whole networks share: their setting and what they measure."""
