//! What is hosted for an agent: held to its limits under a hostile one, and files by real folders.

mod hostile;
mod workspace;
