//! Approvals and questions, answered in lines.

use oip_host::client::{Event, Field};
use serde_json::{Map, Value};

/// What the agent waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pending {
    /// Yes, no, or why not.
    Approval { id: String },
    /// One of several, several of several, or any text.
    Question {
        id: String,
        options: Vec<String>,
        multi_select: bool,
    },
    /// Fields, one after another.
    Form {
        id: String,
        fields: Vec<Field>,
        filled: Map<String, Value>,
    },
}

/// What a line made of it.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// It goes on waiting.
    More(Pending),
    Approve {
        id: String,
        session: bool,
    },
    Reject {
        id: String,
        feedback: Option<String>,
    },
    Text {
        id: String,
        text: String,
    },
}

impl Pending {
    /// What an event asks, if it asks something.
    pub(super) fn of(event: &Event) -> Option<Self> {
        match event {
            Event::ApprovalNeeded { id, .. } => Some(Self::Approval { id: id.clone() }),
            Event::AskUser { id, fields, .. } if !fields.is_empty() => Some(Self::Form {
                id: id.clone(),
                fields: fields.clone(),
                filled: Map::new(),
            }),
            Event::AskUser {
                id,
                options,
                multi_select,
                ..
            } => Some(Self::Question {
                id: id.clone(),
                options: options.clone(),
                multi_select: *multi_select,
            }),
            _ => None,
        }
    }

    /// The field that is filled in next.
    pub(super) fn field(&self) -> Option<&Field> {
        match self {
            Self::Form { fields, .. } => fields.first(),
            _ => None,
        }
    }

    /// Whether what is typed next must not be seen.
    pub(super) fn is_secret(&self) -> bool {
        self.field().is_some_and(|field| field.secret)
    }

    /// Take a line.
    pub(super) fn take(self, line: &str) -> Answer {
        match self {
            Self::Approval { id } => match line.trim().to_lowercase().as_str() {
                "y" | "yes" => Answer::Approve { id, session: false },
                "s" | "session" => Answer::Approve { id, session: true },
                "" => Answer::More(Self::Approval { id }),
                "n" | "no" => Answer::Reject { id, feedback: None },
                _ => Answer::Reject {
                    id,
                    feedback: Some(line.trim().to_owned()),
                },
            },
            Self::Question {
                id,
                options,
                multi_select,
            } => match choice(line, &options, multi_select) {
                Some(text) => Answer::Text { id, text },
                None => Answer::More(Self::Question {
                    id,
                    options,
                    multi_select,
                }),
            },
            Self::Form {
                id,
                mut fields,
                mut filled,
            } => {
                let empty = line.is_empty() && fields.first().is_some_and(|field| field.required);
                if !empty && !fields.is_empty() {
                    filled.insert(fields.remove(0).name, line.into());
                }
                if fields.is_empty() {
                    let text = Value::Object(filled).to_string();
                    return Answer::Text { id, text };
                }
                Answer::More(Self::Form { id, fields, filled })
            }
        }
    }
}

/// The answer that a line means: numbers stand for options. `None` if it answers nothing.
fn choice(line: &str, options: &[String], multi_select: bool) -> Option<String> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    let numbered = |text: &str| {
        let number: usize = text.trim().parse().ok()?;
        options.get(number.checked_sub(1)?).cloned()
    };
    if multi_select {
        let chosen: Option<Vec<String>> = line.split(',').map(numbered).collect();
        if let Some(chosen) = chosen {
            return Some(chosen.join(", "));
        }
    }
    Some(numbered(line).unwrap_or_else(|| line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(options: &[&str], multi_select: bool) -> Pending {
        Pending::Question {
            id: "q".into(),
            options: options.iter().map(|text| (*text).to_owned()).collect(),
            multi_select,
        }
    }

    fn text(pending: Pending, line: &str) -> Option<String> {
        match pending.take(line) {
            Answer::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    #[test]
    fn an_approval_is_a_word_or_a_reason() {
        let approval = || Pending::Approval { id: "a".into() };
        let id = || "a".to_owned();
        assert_eq!(
            approval().take("Y"),
            Answer::Approve {
                id: id(),
                session: false
            }
        );
        assert_eq!(
            approval().take("s"),
            Answer::Approve {
                id: id(),
                session: true
            }
        );
        assert_eq!(
            approval().take("no"),
            Answer::Reject {
                id: id(),
                feedback: None
            }
        );
        let feedback = Some("not on prod".to_owned());
        assert_eq!(
            approval().take(" not on prod "),
            Answer::Reject { id: id(), feedback }
        );
        // Nothing is not yes.
        assert_eq!(approval().take(""), Answer::More(approval()));
    }

    #[test]
    fn options_have_numbers() {
        let colours = ["red", "blå", "绿"];
        assert_eq!(text(question(&colours, false), "2").unwrap(), "blå");
        assert_eq!(text(question(&colours, false), "mauve").unwrap(), "mauve");
        assert_eq!(text(question(&colours, false), "9").unwrap(), "9");
        assert_eq!(text(question(&colours, true), "1, 3").unwrap(), "red, 绿");
        assert_eq!(text(question(&[], false), "7").unwrap(), "7");
        assert_eq!(text(question(&colours, false), " "), None);
    }

    #[test]
    fn a_form_is_filled_field_by_field() {
        let field = |name: &str, secret| Field {
            name: name.into(),
            label: name.into(),
            secret,
            required: true,
        };
        let form = Pending::Form {
            id: "f".into(),
            fields: vec![field("user", false), field("password", true)],
            filled: Map::new(),
        };
        let Answer::More(form) = form.take("") else {
            panic!("it is required")
        };
        assert_eq!(form.field().unwrap().name, "user");
        let Answer::More(form) = form.take("ann") else {
            panic!("one is left")
        };
        assert!(form.is_secret());
        assert_eq!(
            text(form, "s3cret").unwrap(),
            r#"{"user":"ann","password":"s3cret"}"#
        );
    }
}
