from adcompiler.cli import main

raise SystemExit(main())
