//! WS-Discovery in conversations with clients.

mod datagrams;
mod hostile;
mod metadata;
mod samples;
