//! The stable methods of version 1 (ACP, schema), and `session/set_model`, which some agents still have.

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const AUTHENTICATE: &str = "authenticate";
pub(crate) const LOGOUT: &str = "logout";
pub(crate) const SESSION_NEW: &str = "session/new";
pub(crate) const SESSION_LOAD: &str = "session/load";
pub(crate) const SESSION_RESUME: &str = "session/resume";
pub(crate) const SESSION_LIST: &str = "session/list";
pub(crate) const SESSION_CLOSE: &str = "session/close";
pub(crate) const SESSION_DELETE: &str = "session/delete";
pub(crate) const SESSION_SET_MODEL: &str = "session/set_model";
pub(crate) const SESSION_SET_MODE: &str = "session/set_mode";
pub(crate) const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
pub(crate) const SESSION_PROMPT: &str = "session/prompt";
pub(crate) const SESSION_CANCEL: &str = "session/cancel";
pub(crate) const SESSION_UPDATE: &str = "session/update";
pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";
pub(crate) const FS_READ: &str = "fs/read_text_file";
pub(crate) const FS_WRITE: &str = "fs/write_text_file";
pub(crate) const TERMINAL_CREATE: &str = "terminal/create";
pub(crate) const TERMINAL_OUTPUT: &str = "terminal/output";
pub(crate) const TERMINAL_WAIT: &str = "terminal/wait_for_exit";
pub(crate) const TERMINAL_KILL: &str = "terminal/kill";
pub(crate) const TERMINAL_RELEASE: &str = "terminal/release";
pub(crate) const ELICIT: &str = "elicitation/create";
pub(crate) const ELICITATION_COMPLETE: &str = "elicitation/complete";
pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";
