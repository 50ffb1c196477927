//! Documents that a client prints through one pipe. Those that are not complete are removed with the pipe.

use std::sync::Arc;

use proto::rpc::ndr::ContextHandle;

use crate::named_pipe::Spool;

/// A document that a client has begun.
#[derive(Clone)]
pub(super) struct Document {
    /// The title.
    pub(super) title: Arc<str>,
    /// The data so far.
    pub(super) spool: Arc<Spool>,
}

/// The documents of one pipe, by the handles of printers. A handle has at most one.
#[derive(Default)]
pub(super) struct Documents {
    begun: Vec<(ContextHandle, Document)>,
    ended: bool,
}

impl Documents {
    /// Adds the document of a handle. Returns it if the pipe was closed meanwhile, or if the handle has one.
    pub(super) fn add(&mut self, handle: ContextHandle, document: Document) -> Result<(), Document> {
        if self.ended || self.get(&handle).is_some() {
            return Err(document);
        }
        self.begun.push((handle, document));
        Ok(())
    }

    /// Returns the document of a handle.
    pub(super) fn get(&self, handle: &ContextHandle) -> Option<Document> {
        self.begun.iter().find(|(of, _)| of == handle).map(|(_, document)| document.clone())
    }

    /// Removes the document of a handle.
    pub(super) fn take(&mut self, handle: &ContextHandle) -> Option<Document> {
        let at = self.begun.iter().position(|(of, _)| of == handle)?;
        Some(self.begun.swap_remove(at).1)
    }

    /// Removes all documents. No other is added.
    pub(super) fn end(&mut self) -> Vec<Arc<Spool>> {
        self.ended = true;
        std::mem::take(&mut self.begun).into_iter().map(|(_, document)| document.spool).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_one_document_and_a_closed_pipe_none() {
        let document = || Document { title: "memo".into(), spool: Arc::default() };
        let mut documents = Documents::default();
        assert!(documents.add([1; 20], document()).is_ok() && documents.add([1; 20], document()).is_err());
        assert!(documents.add([2; 20], document()).is_ok() && documents.get(&[3; 20]).is_none());
        assert!(documents.take(&[1; 20]).is_some() && documents.take(&[1; 20]).is_none());
        assert_eq!(documents.end().len(), 1);
        assert!(documents.add([1; 20], document()).is_err());
    }
}
