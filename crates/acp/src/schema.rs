//! The protocol's types. Only this module names the official crate, so that a new version of it is a change here.

pub(crate) use agent_client_protocol::schema::ProtocolVersion;
pub(crate) use agent_client_protocol::v1::schema::Content as ToolContent;
pub(crate) use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthenticateResponse, AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate,
    CancelNotification, CancelRequestNotification, ClientCapabilities, CloseSessionRequest, CloseSessionResponse,
    CompactionStatus, CompactionUpdate, ConfigOptionUpdate, ContentBlock, ContentChunk, Cost, CreateTerminalRequest,
    CreateTerminalResponse, DeleteSessionRequest, DeleteSessionResponse, Diff, EmbeddedResourceResource, EnvVariable,
    Error, ErrorCode, ForkSessionRequest, ForkSessionResponse, ImageContent, Implementation, InitializeRequest,
    InitializeResponse, KillTerminalRequest, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, McpCapabilities, McpServer, MessageId, Meta, NewSessionRequest, NewSessionResponse, Notice,
    NoticeSeverity, PermissionOption, PermissionOptionKind, PromptCapabilities, PromptRequest, PromptResponse,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest, RequestId, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionCapabilities, SessionCloseCapabilities, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionConfigSelectOption, SessionDeleteCapabilities, SessionForkCapabilities, SessionId,
    SessionInfo, SessionInfoUpdate, SessionListCapabilities, SessionMode, SessionModeState, SessionNotification,
    SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse, StopReason, Terminal, TerminalExitStatus, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, TextContent, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, UnstructuredCommandInput, UsageUpdate,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
};

/// The methods by name.
pub(crate) mod method {
    pub(crate) const INITIALIZE: &str = "initialize";
    pub(crate) const AUTHENTICATE: &str = "authenticate";
    pub(crate) const NEW: &str = "session/new";
    pub(crate) const LOAD: &str = "session/load";
    pub(crate) const RESUME: &str = "session/resume";
    pub(crate) const FORK: &str = "session/fork";
    pub(crate) const LIST: &str = "session/list";
    pub(crate) const CLOSE: &str = "session/close";
    pub(crate) const DELETE: &str = "session/delete";
    pub(crate) const PROMPT: &str = "session/prompt";
    pub(crate) const SET_MODE: &str = "session/set_mode";
    pub(crate) const SET_CONFIG_OPTION: &str = "session/set_config_option";
    /// A notification: ends the prompts of a session.
    pub(crate) const CANCEL: &str = "session/cancel";
    /// A notification of either side: a request is not wanted any more.
    pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";
    /// A notification to the editor.
    pub(crate) const UPDATE: &str = "session/update";
    /// A request to the editor, as all that follow.
    pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";
    pub(crate) const READ_TEXT_FILE: &str = "fs/read_text_file";
    pub(crate) const WRITE_TEXT_FILE: &str = "fs/write_text_file";
    pub(crate) const CREATE_TERMINAL: &str = "terminal/create";
    pub(crate) const TERMINAL_OUTPUT: &str = "terminal/output";
    pub(crate) const WAIT_FOR_TERMINAL_EXIT: &str = "terminal/wait_for_exit";
    pub(crate) const KILL_TERMINAL: &str = "terminal/kill";
    pub(crate) const RELEASE_TERMINAL: &str = "terminal/release";
}
