//! How many images and files a prompt may bring, and how large.

use crate::wire::inbound::{Input, Malformed};

/// Limits of one message's attachments, as `/info` tells them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attachments {
    /// Bytes of one, decoded.
    pub(crate) max_bytes: usize,
    /// Files, and images.
    pub(crate) max_count: usize,
}

impl Attachments {
    /// Refuse what is over a limit, by name.
    pub(super) fn check(&self, input: &Input) -> Result<(), Malformed> {
        for (what, count) in [("images", input.images.len()), ("files", input.files.len())] {
            if count > self.max_count {
                let max = self.max_count;
                return Err(Malformed(format!(
                    "{what}: {count} were sent, {max} are allowed"
                )));
            }
        }
        let images = input.images.iter().enumerate();
        let images = images.map(|(i, data)| (format!("images[{i}]"), data));
        let files = input
            .files
            .iter()
            .map(|file| (format!("file {}", file.name), &file.data));
        for (what, data) in images.chain(files) {
            let bytes = decoded_length(data);
            if bytes > self.max_bytes {
                let max = self.max_bytes;
                return Err(Malformed(format!(
                    "{what}: {bytes} bytes were sent, {max} are allowed"
                )));
            }
        }
        Ok(())
    }
}

/// Bytes of a data URL's content, without decoding it.
fn decoded_length(url: &str) -> usize {
    match url.split_once(',') {
        Some((head, data)) if head.ends_with(";base64") => data.trim_end_matches('=').len() * 3 / 4,
        Some((_, data)) => data.len(),
        None => url.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::inbound::Attachment;

    const LIMITS: Attachments = Attachments {
        max_bytes: 5,
        max_count: 2,
    };

    fn said(images: &[&str], files: &[(&str, &str)]) -> Option<String> {
        let input = Input {
            prompt: "look".into(),
            images: images.iter().map(|data| (*data).to_owned()).collect(),
            files: files
                .iter()
                .map(|(name, data)| Attachment {
                    name: (*name).to_owned(),
                    data: (*data).to_owned(),
                })
                .collect(),
        };
        LIMITS.check(&input).err().map(|wrong| wrong.to_string())
    }

    #[test]
    fn what_is_too_large_is_named() {
        // Base64 of five and of six bytes.
        let (five, six) = (
            "data:image/png;base64,aGVsbG8=",
            "data:text/plain;base64,aGVsbG8h",
        );
        assert_eq!(said(&[five, five], &[("a", five), ("b", five)]), None);
        let large = "file b.txt: 6 bytes were sent, 5 are allowed";
        assert_eq!(
            said(&[five], &[("a", five), ("b.txt", six)]).unwrap(),
            large
        );
        let large = "images[1]: 6 bytes were sent, 5 are allowed";
        assert_eq!(said(&[five, six], &[]).unwrap(), large);
        assert_eq!(said(&["data:,hello"], &[]), None);
        assert!(said(&["data:,hello!"], &[]).is_some());
        assert!(said(&["hello!"], &[]).is_some());
        let many = "files: 3 were sent, 2 are allowed";
        assert_eq!(
            said(&[], &[("a", five), ("b", five), ("c", five)]).unwrap(),
            many
        );
    }
}
