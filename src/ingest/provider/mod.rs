//! What each harness writes: one reader a harness.
