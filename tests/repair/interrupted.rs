//! Runs that were killed: the next writer finishes or closes them.
