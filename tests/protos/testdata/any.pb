"]
assetsS*Q
=
+type.googleapis.com/tensorflow.AssetFileDef

x:0f.txt

foo/bar.Baz