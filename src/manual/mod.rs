//! How the source behaves, and why.
