package inventory

// Fields says where in a server's JSON its parts are: gjson paths (https://github.com/tidwall/gjson), tried in order, every
// match taken. A nil list stands for the default.
type Fields struct {
	Name, Names, Addresses, Prefixes, Cabinet, Datacenter, Status []string
}

// Source is where an inventory is read from.
type Source struct {
	// Roles is the path of roles.json.
	Roles string
	// Servers are glob patterns of folders, or of files, with the servers' JSON.
	Servers []string
	Fields  Fields
	// WritableByOthers says that these files may be, also by those whom package trust refuses.
	WritableByOthers bool
}
