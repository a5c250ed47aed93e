//! Captures of real agents, played to a client.
