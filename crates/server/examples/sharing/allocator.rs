//! An allocator with which nothing is stored where something else was, or in the same cache line.

use std::alloc::{GlobalAlloc, Layout, System};

/// Allocates whole cache lines and frees nothing.
pub(crate) struct Lines;

// SAFETY: the system's allocator does the work, with a layout that is at least as large and as aligned.
unsafe impl GlobalAlloc for Lines {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let lines = layout.align_to(64).map(|layout| layout.pad_to_align());
        // SAFETY: the layout has the caller's size, which is not zero, or a larger one.
        lines.map_or(std::ptr::null_mut(), |lines| unsafe { System.alloc(lines) })
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
