//! The output contract: documents and their schemas.
