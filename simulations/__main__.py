"""`python -m simulations`: list the experiments, or run one by name or by file."""

from rmt.experiments.cli import main

raise SystemExit(main())
