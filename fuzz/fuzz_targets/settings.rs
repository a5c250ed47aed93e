#![cfg_attr(fuzzing, no_main)]

agentline_fuzz::target!(agentline_tests::cases::settings);
