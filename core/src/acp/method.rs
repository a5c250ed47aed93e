//! The stable methods of version 1 (ACP, schema), and `session/set_model`, which some agents still have.

pub(super) const INITIALIZE: &str = "initialize";
pub(super) const AUTHENTICATE: &str = "authenticate";
pub(super) const LOGOUT: &str = "logout";
pub(super) const SESSION_NEW: &str = "session/new";
pub(super) const SESSION_LOAD: &str = "session/load";
pub(super) const SESSION_RESUME: &str = "session/resume";
pub(super) const SESSION_LIST: &str = "session/list";
pub(super) const SESSION_CLOSE: &str = "session/close";
pub(super) const SESSION_DELETE: &str = "session/delete";
pub(super) const SESSION_SET_MODEL: &str = "session/set_model";
pub(super) const SESSION_SET_MODE: &str = "session/set_mode";
pub(super) const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
pub(super) const SESSION_PROMPT: &str = "session/prompt";
pub(super) const SESSION_CANCEL: &str = "session/cancel";
pub(super) const SESSION_UPDATE: &str = "session/update";
pub(super) const REQUEST_PERMISSION: &str = "session/request_permission";
pub(super) const FS_READ: &str = "fs/read_text_file";
pub(super) const FS_WRITE: &str = "fs/write_text_file";
pub(super) const TERMINAL_CREATE: &str = "terminal/create";
pub(super) const TERMINAL_OUTPUT: &str = "terminal/output";
pub(super) const TERMINAL_WAIT: &str = "terminal/wait_for_exit";
pub(super) const TERMINAL_KILL: &str = "terminal/kill";
pub(super) const TERMINAL_RELEASE: &str = "terminal/release";
pub(super) const ELICIT: &str = "elicitation/create";
pub(super) const ELICITATION_COMPLETE: &str = "elicitation/complete";
pub(super) const CANCEL_REQUEST: &str = "$/cancel_request";
