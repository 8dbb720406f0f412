//! One tool: read, described to the model server, and repeated to the client.

use std::borrow::Cow;

use serde_json::json;

use crate::bad_request::Flaw;
use crate::chat::begins;
use crate::client_tools::{ClientTool, INPUT};
use crate::json::{Object, Writer, compact, flag};

/// A function or a custom tool of the client.
pub(super) struct Definition<'a> {
    name: Cow<'a, str>,
    namespace: Option<Cow<'a, str>>,
    /// The description of the namespace, if this is its first tool.
    introduction: Option<Cow<'a, str>>,
    description: Option<Cow<'a, str>>,
    form: Form<'a>,
}

/// What a tool takes.
enum Form<'a> {
    /// Arguments.
    Function { parameters: Option<Cow<'a, str>>, strict: Option<bool> },
    /// A text.
    Custom { format: Option<Cow<'a, str>>, grammar: Option<Grammar<'a>> },
}

/// The grammar that the text of a custom tool has.
struct Grammar<'a> {
    syntax: Cow<'a, str>,
    definition: Cow<'a, str>,
}

impl<'a> Definition<'a> {
    /// Reads a function.
    pub(super) fn function(mut tool: Object<'a>) -> Result<Self, Flaw> {
        let name = tool.take_name("name")?;
        let description = tool.take_text("description")?;
        let parameters = tool.take("parameters").map(|raw| {
            begins(raw, "{", "must be an object").and_then(|()| compact(raw)).map_err(|flaw| flaw.within("parameters"))
        });
        let strict = tool.take("strict").map(|raw| flag(raw).map_err(|flaw| flaw.within("strict")));
        let form = Form::Function { parameters: parameters.transpose()?, strict: strict.transpose()? };
        Ok(Self { name, namespace: None, introduction: None, description, form })
    }

    /// Reads a custom tool.
    pub(super) fn custom(mut tool: Object<'a>) -> Result<Self, Flaw> {
        let name = tool.take_name("name")?;
        let description = tool.take_text("description")?;
        let mut form = Form::Custom { format: None, grammar: None };
        if let Some(raw) = tool.take("format") {
            let read = || Ok((compact(raw)?, Grammar::read(Object::read(raw)?)?));
            let (format, grammar) = read().map_err(|flaw: Flaw| flaw.within("format"))?;
            form = Form::Custom { format: Some(format), grammar };
        }
        Ok(Self { name, namespace: None, introduction: None, description, form })
    }

    /// The same tool in a namespace.
    pub(super) fn within(self, namespace: Cow<'a, str>, introduction: Option<Cow<'a, str>>) -> Self {
        Self { namespace: Some(namespace), introduction, ..self }
    }

    /// The tool, as the client knows it.
    pub(super) fn tool(&self) -> ClientTool {
        ClientTool {
            name: self.name.clone().into_owned(),
            namespace: self.namespace.clone().map(Cow::into_owned),
            custom: matches!(self.form, Form::Custom { .. }),
        }
    }

    /// Writes the function that the model server is offered.
    pub(super) fn write_chat(&self, name: &str, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", "function");
        writer.key("function");
        writer.open_object();
        writer.field("name", name);
        if let Some(description) = self.model_description() {
            writer.field("description", &description);
        }
        match &self.form {
            Form::Function { parameters, strict } => {
                if let Some(parameters) = parameters {
                    writer.raw_field("parameters", parameters);
                }
                if let Some(strict) = strict {
                    writer.field("strict", strict);
                }
            }
            Form::Custom { .. } => writer.field(
                "parameters",
                &json!({
                    "type": "object",
                    "properties": { INPUT: { "type": "string" } },
                    "required": [INPUT],
                    "additionalProperties": false,
                }),
            ),
        }
        writer.close_object();
        writer.close_object();
    }

    /// What the model is told: of the namespace, of the tool, and of the text that it takes.
    fn model_description(&self) -> Option<Cow<'_, str>> {
        let grammar = match &self.form {
            Form::Custom { grammar: Some(Grammar { syntax, definition }), .. } => Some(format!(
                "The text of `{INPUT}` must match this {syntax} grammar:\n{}",
                definition.trim_matches('\n')
            )),
            _ => None,
        };
        let others = [self.introduction.as_deref(), grammar.as_deref()];
        if others.iter().all(|part| part.is_none_or(str::is_empty)) {
            return self.description.as_deref().map(Cow::Borrowed);
        }
        let [introduction, grammar] = others;
        let parts = [introduction, self.description.as_deref(), grammar].into_iter().flatten();
        Some(Cow::Owned(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")))
    }

    /// Writes the tool as the client sent it.
    pub(super) fn write_echo(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", if matches!(self.form, Form::Custom { .. }) { "custom" } else { "function" });
        writer.field("name", &self.name);
        writer.field("description", &self.description);
        match &self.form {
            Form::Function { parameters, strict } => {
                writer.raw_field("parameters", parameters.as_deref().unwrap_or("null"));
                writer.field("strict", strict);
            }
            Form::Custom { format, .. } => {
                writer.raw_field("format", format.as_deref().unwrap_or(r#"{"type":"text"}"#));
            }
        }
        writer.close_object();
    }
}

impl<'a> Grammar<'a> {
    /// Reads a format. `None` if it allows any text.
    fn read(mut format: Object<'a>) -> Result<Option<Self>, Flaw> {
        match &*format.take_name("type")? {
            "text" => Ok(None),
            "grammar" => {
                Ok(Some(Self { syntax: format.take_name("syntax")?, definition: format.take_name("definition")? }))
            }
            _ => Err(Flaw::at("type", "must be text or grammar")),
        }
    }
}

/// An MCP server that the client lists. The operator configures how it is reached and which of its calls are asked
/// for, so only its label counts. What the client says beside it is repeated, without headers and keys.
pub(super) struct Server<'a> {
    pub(super) label: Cow<'a, str>,
    repeated: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Server<'a> {
    const REPEATED: [&'static str; 5] =
        ["server_url", "server_description", "connector_id", "allowed_tools", "require_approval"];

    pub(super) fn read(mut tool: Object<'a>) -> Result<Self, Flaw> {
        let label = tool.take_name("server_label")?;
        let mut repeated = Vec::new();
        for name in Self::REPEATED {
            let json = tool.take(name).map(|raw| compact(raw).map_err(|flaw| flaw.within(name))).transpose()?;
            repeated.push((name, json.unwrap_or(Cow::Borrowed("null"))));
        }
        Ok(Self { label, repeated })
    }

    pub(super) fn write_echo(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", "mcp");
        writer.field("server_label", &self.label);
        for (name, json) in &self.repeated {
            writer.raw_field(name, json);
        }
        writer.raw_field("headers", "null");
        writer.close_object();
    }
}
