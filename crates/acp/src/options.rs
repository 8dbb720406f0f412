//! What a person chooses for a session: the mode of its tools, and its model. Both are stored with the conversation.

use herma_model::ToolMode;
use herma_store::{Change, ConversationRow};

use crate::agent::{Agent, Answered, Handled};
use crate::error::{bad_params, of_session};
use crate::schema::{
    Error, SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue, SessionConfigSelectOption,
    SessionMode, SessionModeState, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use crate::session::OpenSession;

/// The only configuration option.
const MODEL: &str = "model";

/// The mode of a session, and those that it can have.
pub(crate) fn modes(row: &ConversationRow) -> SessionModeState {
    let mode = |mode: ToolMode, name: &str, description: &str| {
        SessionMode::new(mode.as_str(), name).description(description.to_owned())
    };
    let all = vec![
        mode(ToolMode::Ask, "Ask", "Asks before a tool changes something."),
        mode(ToolMode::Auto, "Auto", "Calls tools without asking."),
        mode(ToolMode::ReadOnly, "Read only", "Calls only tools that are marked read-only."),
    ];
    SessionModeState::new(row.editor.mode.unwrap_or(ToolMode::Ask).as_str(), all)
}

impl Agent {
    /// The options of a session, with their values.
    pub(crate) async fn options(&self, row: &ConversationRow) -> Vec<SessionConfigOption> {
        let default = &self.gateway.settings().default_model;
        let current = row.editor.model.as_deref().unwrap_or(default);
        let mut names = self.models().await;
        if !current.is_empty() && !names.iter().any(|name| name == current) {
            names.insert(0, current.to_owned());
        }
        if names.is_empty() {
            return Vec::new();
        }
        let choices: Vec<_> =
            names.into_iter().map(|name| SessionConfigSelectOption::new(name.clone(), name)).collect();
        let option = SessionConfigOption::select(MODEL, "Model", current.to_owned(), choices);
        vec![option.category(SessionConfigOptionCategory::Model)]
    }

    /// The names of all models.
    pub(crate) async fn models(&self) -> Vec<String> {
        self.gateway.offered_models().await.into_iter().map(|model| model.id).collect()
    }

    /// Sets the mode of a session. It holds for the next tool call.
    pub(crate) async fn set_mode(&self, request: SetSessionModeRequest) -> Handled {
        let (session, _) = self.opened(&request.session_id).await?;
        let mode = ToolMode::parse(&request.mode_id.0).ok_or_else(|| bad_params("there is no such mode"))?;
        self.change(&session, Change { tool_mode: Some(mode), ..Change::default() }).await?;
        Ok(Answered::new(&SetSessionModeResponse::new()))
    }

    /// Sets an option of a session. It holds from the next prompt on.
    pub(crate) async fn set_option(&self, request: SetSessionConfigOptionRequest) -> Handled {
        let (session, _) = self.opened(&request.session_id).await?;
        let SessionConfigOptionValue::ValueId { value } = &request.value else {
            return Err(bad_params("the option takes a name"));
        };
        if &*request.config_id.0 != MODEL {
            return Err(bad_params("there is no such option"));
        }
        if !self.models().await.iter().any(|name| **name == *value.0) {
            return Err(bad_params("there is no such model"));
        }
        let row = self.choose_model(&session, &value.0).await?;
        Ok(Answered::new(&SetSessionConfigOptionResponse::new(self.options(&row).await)))
    }

    /// Stores the model of a session.
    pub(crate) async fn choose_model(&self, session: &OpenSession, name: &str) -> Result<ConversationRow, Error> {
        self.change(session, Change { model: Some(Some(name.to_owned())), ..Change::default() }).await
    }

    /// Changes a conversation.
    pub(crate) async fn change(&self, session: &OpenSession, change: Change) -> Result<ConversationRow, Error> {
        let changed = self.sessions().change(&session.alias, change).await;
        changed.map_err(|error| of_session(&session.id, &error))
    }
}
