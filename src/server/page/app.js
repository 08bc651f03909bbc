document.title = "ROCmForge";
