//! Reparse points and symbolic links on an in-memory file system: clients create them and open them themselves. No link
//! leads out of the share or to anything that it hides.

mod escapes;
mod fixture;
mod handles;
mod points;
