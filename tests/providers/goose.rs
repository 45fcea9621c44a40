//! goose
