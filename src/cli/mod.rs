//! The command line: the only code that knows clap, stdout and stderr.
