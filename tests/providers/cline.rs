//! cline
