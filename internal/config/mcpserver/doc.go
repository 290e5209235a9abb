// Package mcpserver is one entry of mcpServers: how an MCP server is reached, with whose credentials,
// and how it is kept running.
//
// It reads no file and knows no other part of the configuration, so that a program which runs MCP
// servers needs neither: package config reads entries and checks them, package upstream connects to
// their servers.
package mcpserver
