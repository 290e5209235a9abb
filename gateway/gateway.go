// Package gateway shows thousands of tools at the price of three.
package gateway
