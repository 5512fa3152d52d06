"""Attribution: which parts of the input stand behind each written token. One method a file, each with its source."""
