//! Reparse points and symbolic links, on a file system in memory: made by clients, opened themselves, and led by none out
//! of the share or to what it hides.

mod bench;
mod escapes;
mod handles;
mod points;
